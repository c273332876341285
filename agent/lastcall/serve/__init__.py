"""The agent's own doors: the socket that training processes speak on, and the HTTP pages."""
