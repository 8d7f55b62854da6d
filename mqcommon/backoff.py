"""Pauses between tries, which double until they reach a maximum."""

__all__ = ["Backoff"]


class Backoff:
    """The pauses between the tries of one thing. first_s, max_s: the first and the longest."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self.pause_s = first_s
        """Seconds until the next try."""

    def grow(self) -> None:
        """Double the pause, after a try that failed."""
        self.pause_s = min(2 * self.pause_s, self._max_s)

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self.pause_s = self._first_s
