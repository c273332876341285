import pytest

from lastcall.config import forms
from lastcall.config.forms import split_listen


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0.0.0.0:9855", ("0.0.0.0", 9855)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::]:65535", ("::", 65535)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_a_listen_address_falls_into_host_and_port(text, address) -> None:
    assert split_listen(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":9855",
        "0.0.0.0",
        "0.0.0.0:",
        "::1:80",
        "[::1]",
        "[1.2.3.4]:80",
        "[x]:80",
        "300.1.1.1:80",
        "host:65536",
        "host:-1",
        "host:8o",
        "ho st:80",
        "http://host:80",
        "host:80\n",
    ],
)
def test_what_is_no_listen_address_is_refused(text) -> None:
    with pytest.raises(ValueError, match="not HOST:PORT"):
        split_listen(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://169.254.169.254",
        "https://host.example:8443/a/b?c=d",
        "http://[fd00:ec2::254]",
        "http://metadata",
        "http://a_b.svc.cluster.local.",
    ],
)
def test_addresses_of_the_web_are_taken(text) -> None:
    assert forms.URL.accepts(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "//host",
        "ftp://host",
        "http:/host",
        "http://",
        "http://:80",
        "http://h:99999",
        "http://h:0",
        "http://h:x",
        "http://u@h",
        "http://u:p@h",
        "http://h/#f",
        "http://h/a b",
        "http://[::1",
        "http://999.1.1.1",
        "http://-h",
    ],
)
def test_what_is_no_address_of_the_web_is_refused(text) -> None:
    assert not forms.URL.accepts(text)


def test_an_endpoint_takes_no_query() -> None:
    assert forms.ENDPOINT.accepts("http://host/path")
    assert not forms.ENDPOINT.accepts("http://host/?a=b")


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("2030-01-31T10:00:00Z", True),
        ("2030-01-31T10:00:00.5+08:00", True),
        ("2030-01-31T10:00:00", False),
        ("2030-01-31", False),
        ("2030-02-30T10:00:00Z", False),
        ("soon", False),
    ],
)
def test_a_time_needs_its_zone(text, accepted) -> None:
    assert forms.TIME.accepts(text) is accepted
