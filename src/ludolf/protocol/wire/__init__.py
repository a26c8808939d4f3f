"""Types of all frames, in both directions and in every dialect.

Read by the schema and by the client. The program itself writes its frames without these.
"""
