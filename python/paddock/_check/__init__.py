"""What `paddock.check` is made of. Reads sources with `ast`; imports nothing of a project."""
