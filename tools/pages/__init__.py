"""What the site does beyond configuration; tools/site_hooks.py calls it from MkDocs' events."""
