"""The index of a topic exchange: which destinations have a pattern that fits a routing key.

A trie over the words of the patterns. Looking up a key costs what the key has words and what the patterns branch at
``*`` and ``#``; it does not grow with the number of patterns, so 100,000 bindings are as fast as ten. Pure; used by
``exchanges.TopicExchange`` alone.

Rule (AMQP 0-9-1, 3.1.3.3): words are separated by dots, ``*`` stands for exactly one word, ``#`` for none or more.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def _words(text: str) -> list[str]:
    return text.split(".") if text else []  # as RabbitMQ: an empty key has no word, so ``*`` does not fit it


class _Node(Generic[T]):
    """One word of the patterns that pass through here; ``ends`` are the destinations whose pattern stops here."""

    __slots__ = ("ends", "hash", "star", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node[T]] = {}
        self.star: _Node[T] | None = None
        self.hash: _Node[T] | None = None
        self.ends: dict[T, None] = {}

    def child(self, word: str) -> "_Node[T] | None":
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return self.words.get(word)

    def grow(self, word: str) -> "_Node[T]":
        found = self.child(word)
        if found is None:
            found = _Node()
            self._set(word, found)
        return found

    def prune(self, word: str) -> None:
        if word in ("*", "#"):
            self._set(word, None)
        else:
            del self.words[word]

    def _set(self, word: str, node: "_Node[T] | None") -> None:
        if word == "*":
            self.star = node
        elif word == "#":
            self.hash = node
        elif node is not None:
            self.words[word] = node

    def is_bare(self) -> bool:
        return not (self.ends or self.words or self.star or self.hash)


class TopicIndex(Generic[T]):
    """Patterns and their destinations; the same pair added twice is there once."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, pattern: str, destination: T) -> None:
        node = self._root
        for word in _words(pattern):
            node = node.grow(word)
        node.ends[destination] = None

    def remove(self, pattern: str, destination: T) -> None:
        """Take a pair out and cut the branches that nothing passes any more; an unknown pair is no error."""
        path = [(self._root, "")]
        node: _Node[T] | None = self._root
        for word in _words(pattern):
            node = node.child(word) if node else None
            if node is None:
                return
            path.append((node, word))
        path[-1][0].ends.pop(destination, None)
        for depth in range(len(path) - 1, 0, -1):
            leaf, word = path[depth]
            if not leaf.is_bare():
                return
            path[depth - 1][0].prune(word)

    def match(self, key: str) -> Iterator[T]:
        """Every destination with a pattern that fits ``key``; one with several such patterns may come several times."""
        words = _words(key)
        count = len(words)
        todo: list[tuple[_Node[T], int]] = [(self._root, 0)]
        # Several hashes in one pattern reach the same place in exponentially many ways: each place is entered once.
        seen: set[tuple[int, int]] = set()
        while todo:
            node, at = todo.pop()
            if at == count:
                yield from node.ends
            else:
                follow = node.words.get(words[at])
                if follow is not None:
                    todo.append((follow, at + 1))
                if node.star is not None:
                    todo.append((node.star, at + 1))
            if node.hash is not None:
                places = [(id(node.hash), rest) for rest in range(at, count + 1)]
                todo.extend((node.hash, rest) for place, rest in places if (place, rest) not in seen)
                seen.update(places)
