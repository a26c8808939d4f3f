"""Configuration: settings, keys, models, skills, templates. Import its files by name.

Nothing is imported here, so that the first reply does not wait for modules it does not need.
"""
