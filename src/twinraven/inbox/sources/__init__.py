"""The kinds of things that wait for people, each found where it is kept."""
