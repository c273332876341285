"""What is reported of pods: nothing twice, and that one leaves once, whatever it leaves for."""

from __future__ import annotations

from collections import OrderedDict

from lastcall.core.events import EvictionReported
from lastcall.drain.base import Post
from lastcall.drain.kubernetes.drain_past import LEAVES, News

REPORTS_KEPT = 16384
"""So many reports are remembered."""


class Reports:
    """Reports what becomes of pods, for all drains together.

    Args:
        post: takes the events.
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._said: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def say(self, notice_id: str, news: News) -> None:
        """Report something of a pod, unless it was said before for the notice.

        Once it was said that a pod leaves, for whatever notice, nothing more is said of it.
        An order that was taken back and is given anew finds the same pods.
        """
        pod = news.pod
        leaving = (pod.uid,)
        key = leaving if news.outcome in LEAVES else (pod.uid, notice_id, news.outcome)
        if leaving in self._said or key in self._said:
            return
        self._said[key] = None
        while len(self._said) > REPORTS_KEPT:
            self._said.popitem(last=False)
        self._post(EvictionReported(notice_id, pod.full_name, news.outcome, news.detail, pod.uid))
