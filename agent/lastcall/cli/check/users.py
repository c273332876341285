"""Who runs the check, for findings about what that user may do."""

from __future__ import annotations

import os
import pwd

AS_AGENT = "run the check, and the agent, as a user who may (root, or sudo), or set another path"
"""The remedy where this user may not what the agent has to do."""


def this_user() -> str:
    """Return the name of the user in whose rights this runs."""
    number = os.geteuid()
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
