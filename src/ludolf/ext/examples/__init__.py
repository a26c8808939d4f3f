"""Extensions to copy: each file here is whole, short, and tested as it stands.

Where they are: python -c "import ludolf.ext.examples as e; print(e.__path__[0])"

permission_gate     asks before dangerous commands; says no when nobody can be asked
protected_paths     keeps the agent from writing to files that it should leave alone
plan_mode           first read and plan, then, once you agree, act
todo                a list of tasks that the model keeps and that follows the branches of a session
git_checkpoint      your files as they were before each prompt, back when you fork there
custom_provider     a whole model backend: any program that reads a conversation and answers
structured_output   the final answer as JSON that fits a schema
sandboxed_bash      commands without network, and able to write to the project only
prompt_customiser   the system prompt, with the parts that you want in it
rpc_demo            every dialog and every notice, for those who write a host
"""
