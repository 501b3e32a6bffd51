"""One file per kind of package. Each has `write(release, out)`, which returns the file that it wrote."""
