"""The socket's language, shared by both sides: messages and their form on the line. Pure."""
