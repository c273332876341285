"""The training side: what a training process calls, and the thread that talks to the agent.

Standard library alone. Nothing here raises into training because an agent is missing, odd or gone.
"""

from lastcall.client.flush import Flush
from lastcall.client.guard import Guard, connect
from lastcall.client.identity import Identity
from lastcall.client.notice import Notice
from lastcall.wire.messages import Advice

__all__ = ["Advice", "Flush", "Guard", "Identity", "Notice", "connect"]
