"""Configuration: settings, keys, models, skills, templates. Import its files by name.

Nothing is loaded here: what only a prompt needs must not cost time at the first reply.
"""
