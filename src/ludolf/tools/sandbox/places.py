"""Where credentials lie, what in a project runs code later, which sockets lead out: data."""

# Below the home folder; files or folders.
CREDENTIALS = (
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".oci",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/op",
    ".config/sops",
    ".config/rclone",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".mozilla",
    ".thunderbird",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/opencode/auth.json",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".terraform.d/credentials.tfrc.json",
    ".vault-token",
    ".pgpass",
    ".my.cnf",
    ".s3cfg",
    ".boto",
    ".pi/agent/auth.json",
    ".pi/agent/models.json",
    ".omp/agent",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
)
# Below the agent's own folder.
OWN_CREDENTIALS = ("auth.json", "models.json", "oauth.json", "trust.json")

# At the top of the working folder: settings of agents and editors, which run code from there.
PROJECT_SETTINGS = (
    ".pi",
    ".agents",
    ".omp",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".vscode",
    ".idea",
)
# What git itself runs, in any repository.
GIT_CODE = ("config", "config.worktree", "hooks", "commondir")

# Who may speak to one of these commands somebody outside the sandbox.
CONTROL_SOCKETS = (
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/libvirt/libvirt-sock",
    "/run/snapd.socket",
    "/run/incus/unix.socket",
    "/var/lib/lxd/unix.socket",
)
USER_SOCKETS = ("bus", "systemd/private", "podman/podman.sock", "docker.sock")
# Programs of some distributions lie below /run, which is hidden otherwise.
KEPT_IN_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver")

# Variables that lead to such sockets, or to an agent that signs.
LEADING_OUT = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "TMUX",
    "TMUX_TMPDIR",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
)
