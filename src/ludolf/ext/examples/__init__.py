"""Example extensions to copy. Each file is complete, short and tested.

Print their folder: python -c "import ludolf.ext.examples as e; print(e.__path__[0])"

permission_gate     ask before dangerous commands; refuse them without a host
protected_paths     block writes to secrets, .git and lock files
plan_mode           read and plan first, act after you agree
todo                task list that the model maintains, one per branch of the session
git_checkpoint      save your files before each prompt, restore them when you fork there
custom_provider     model backend: any program that reads a conversation and answers
structured_output   final answer as JSON that matches a schema
sandboxed_bash      run commands without network, with write access to the project only
prompt_customiser   add your own parts to the system prompt
rpc_demo            every dialog and notice, for authors of hosts
"""
