"""The system bus (D-Bus), for the parts that speak with logind and with systemd."""
