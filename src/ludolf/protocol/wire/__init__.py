"""What stands on the wire, as types: every frame, both ways, in every dialect.

Read by the schema and by the client. The program itself writes its frames without these.
"""
