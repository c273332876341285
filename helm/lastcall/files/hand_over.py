"""Gives directories and what they hold to a user, before the agent: USER GROUP DIRECTORY..."""

# ruff: noqa: INP001 - the script of a pod, and no module

import os
import sys


def main() -> None:
    """Change the owners; links are changed themselves and never followed."""
    user, group, *directories = sys.argv[1:]
    for top in directories:
        for path, _, files in os.walk(top):
            for name in (path, *(os.path.join(path, file) for file in files)):
                os.chown(name, int(user), int(group), follow_symlinks=False)
    sys.stdout.write(f"{', '.join(directories)} belong to {user}:{group}\n")


main()
