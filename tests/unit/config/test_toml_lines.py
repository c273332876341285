from lastcall.config.toml_lines import lines_by_key


def test_each_key_has_its_line() -> None:
    text = """\
# mode = "in a comment"
mode = "act"   # "not a string
flush.reserve_seconds = 1

[ notices . aws ]
"poll_seconds" = 2
'endpoint' = "http://a # no comment"

[[notices.rules]]
respond = "flush"
[[notices.rules]]
respond = "inform"
"""

    assert lines_by_key(text) == {
        "mode": 2,
        "flush.reserve_seconds": 3,
        "notices.aws": 5,
        "notices.aws.poll_seconds": 6,
        "notices.aws.endpoint": 7,
        "notices.rules": 9,
        "notices.rules.respond": 10,
    }


def test_what_looks_like_a_key_within_a_long_text_is_none() -> None:
    text = 'a = """\nmode = 1\n\\""" """\nb = \'\'\'\n[table]\n\'\'\'\nc = 1\n'

    assert lines_by_key(text) == {"a": 1, "b": 4, "c": 7}
