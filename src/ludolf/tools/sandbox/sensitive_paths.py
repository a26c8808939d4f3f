"""Lists of credential paths, of project files that run code, and of sockets to hide."""


def _in(folder: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for name in names)


# Below the home folder; files or folders.
CREDENTIALS = (
    # Shells, keys, tokens of machines and clouds.
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".fly", ".linode-cli"),
    *_in(".config", "gcloud", "doctl", "hcloud", "scw", "containers/auth.json", "helm", "rclone"),
    *_in(".config", "ngrok", "stripe", "sops", "configstore", ".wrangler", "netlify", "solana"),
    *(".local/share/com.vercel.cli", ".railway", ".supabase", ".doppler", ".infisical"),
    *(".pulumi/credentials.json", ".terraform.d/credentials.tfrc.json", ".vault-token"),
    *(".s3cfg", ".boto", ".sentryclirc", ".foundry/keystores"),
    # Git and its hosts.
    *(".git-credentials", ".netrc", ".authinfo"),
    *_in(".config", "git/credentials", "gh", "hub", "glab-cli", "tea"),
    # Package registries.
    *(".npmrc", ".yarnrc.yml", ".bunfig.toml", ".pypirc", ".pip/pip.conf"),
    *_in(".config", "pip/pip.conf", "pypoetry/auth.toml", "composer/auth.json"),
    *(".local/share/uv/credentials", ".cargo/credentials", ".cargo/credentials.toml"),
    *(".gem/credentials", ".composer/auth.json", ".m2/settings.xml", ".m2/settings-security.xml"),
    *(".gradle/gradle.properties", ".sbt/.credentials", ".ivy2/.credentials"),
    ".nuget/NuGet/NuGet.Config",
    # Data.
    *(".pgpass", ".my.cnf", ".mylogin.cnf", ".databrickscfg", ".snowflake", ".snowsql"),
    *(".dbt/profiles.yml", ".kaggle", ".huggingface", ".config/wandb"),
    *_in(".cache/huggingface", "token", "stored_tokens"),
    # Passwords, mail, browsers, chats.
    *(".password-store", ".1password", ".msmtprc", ".mozilla", ".librewolf", ".thunderbird"),
    *_in(".local/share", "keyrings", "kwalletd", "gopass", "TelegramDesktop"),
    *_in(".config", "op", "1Password", "Bitwarden", "Bitwarden CLI", "rbw", "google-chrome"),
    *_in(".config", "chromium", "microsoft-edge", "vivaldi", "BraveSoftware"),
    *_in(".config", "Signal", "Slack", "discord"),
    *(".var/app", "snap/firefox", "snap/chromium"),
    # Agents and editors.
    *_in(".pi/agent", "auth.json", "models.json", "mcp.json", "mcp-auth.json"),
    *(".omp/agent", ".claude.json"),
    *(".claude/.credentials.json", ".codex/auth.json", ".copilot", ".factory/auth.json"),
    *_in(".gemini", "oauth_creds.json", "mcp-oauth-tokens.json", "mcp-oauth-tokens-v2.json"),
    *(".gemini/.env", ".qwen/oauth_creds.json", ".qwen/.env", ".grok/user-settings.json"),
    *(".continue", ".codeium", ".aider.conf.yml"),
    *_in(".local/share", "opencode/auth.json", "opencode/mcp-auth.json", "amp/secrets.json"),
    *_in(".local/share", "crush", "goose"),
    *_in(".config", "Claude", "github-copilot", "goose", "io.datasette.llm", "Code"),
    *_in(".config", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "JetBrains"),
    # Displays: with one of these, access to an X socket is enough to type for the user.
    *(".Xauthority", ".ICEauthority"),
    # Containers of the user, by their sockets.
    *(".colima", ".lima", ".orbstack", ".rd"),
    # Histories of input.
    *(".bash_history", ".zsh_history", ".zhistory", ".histfile", ".sh_history", ".ksh_history"),
    *_in(".local/share", "fish/fish_history", "atuin"),
    *_in(".config/nushell", "history.txt", "history.sqlite3"),
    *(".python_history", ".node_repl_history", ".irb_history", ".psql_history"),
    *(".mysql_history", ".sqlite_history", ".rediscli_history", ".mongodb", ".duckdb_history"),
)
# Below the agent's own folder.
OWN_CREDENTIALS = (
    *("auth.json", "models.json", "oauth.json", "trust.json"),
    *("mcp.json", "mcp-auth.json"),
)

# At the top of the working folder: settings of agents and editors, which run code from there.
PROJECT_SETTINGS = (
    *(".pi", ".agents", ".omp", ".claude", ".codex", ".cursor", ".gemini"),
    *(".vscode", ".idea"),
)
# Files that git itself runs, in any repository.
GIT_CODE = ("config", "config.worktree", "hooks", "commondir")

# Access to one of these sockets controls a process outside the sandbox.
CONTROL_SOCKETS = (
    *_in("/run", "docker.sock", "podman/podman.sock", "containerd/containerd.sock"),
    *_in("/run", "crio/crio.sock", "libvirt/libvirt-sock", "snapd.socket", "incus/unix.socket"),
    *("/var/run/docker.sock", "/var/lib/lxd/unix.socket"),
)
USER_SOCKETS = ("bus", "systemd/private", "podman/podman.sock", "docker.sock")
X_SOCKETS = "/tmp/.X11-unix"
# Folders that commands see empty or filled differently under bubblewrap.
PRIVATE = ("/run", "/var/run", "/dev")
# Some distributions install programs below /run, which is hidden otherwise.
KEPT_IN_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver")

# Variables that lead to such sockets, or to an agent that signs.
LEADING_OUT = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "TMUX", "TMUX_TMPDIR"),
    *("DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "XDG_RUNTIME_DIR"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
)

# Files by which root changes the whole machine, or has the kernel run a program.
KERNEL_SETTINGS = (
    *_in("/proc/sys/kernel", "core_pattern", "modprobe", "hotplug"),
    *("/proc/sys/fs/binfmt_misc/register", "/proc/sys/vm/overcommit_memory"),
    *("/proc/sysrq-trigger", "/proc/mtrr", "/proc/dynamic_debug/control"),
    *("/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs"),
    *("/dev/mem", "/dev/kmsg"),
)
