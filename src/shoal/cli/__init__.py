"""The command `shoal`: main.py lists the commands, one file each."""
