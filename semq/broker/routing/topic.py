"""The index of a topic exchange: the destinations whose pattern matches a routing key. Pure.

A trie over the words of the patterns.

Rule (AMQP 0-9-1, 3.1.3.3): words are separated by dots, ``*`` stands for exactly one word, ``#`` for none or more.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


def _words(text: str) -> list[str]:
    return text.split(".") if text else []  # as in RabbitMQ: ``*`` does not match an empty key


class _Node(Generic[T]):
    """One position in the trie; ``ends`` has the destinations whose pattern ends here."""

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

    def child_or_new(self, word: str) -> "_Node[T]":
        node = self.child(word)
        if node is None:
            node = _Node()
            self._set(word, node)
        return node

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

    def is_empty(self) -> bool:
        return not (self.ends or self.words or self.star or self.hash)


class TopicIndex(Generic[T]):
    """Patterns and their destinations; adding a pair twice has no further effect."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, pattern: str, destination: T) -> None:
        node = self._root
        for word in _words(pattern):
            node = node.child_or_new(word)
        node.ends[destination] = None

    def remove(self, pattern: str, destination: T) -> None:
        """Remove a pair and the branches that are no longer used; an unknown pair is not an error."""
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
            if not leaf.is_empty():
                return
            path[depth - 1][0].prune(word)

    def match(self, key: str) -> Iterator[T]:
        """Yield every destination with a pattern that matches ``key``, possibly several times."""
        words = _words(key)
        count = len(words)
        todo: list[tuple[_Node[T], int]] = [(self._root, 0)]
        # A position after a hash is visited once: several hashes reach it in exponentially many ways.
        seen: set[tuple[int, int]] = set()
        while todo:
            node, at = todo.pop()
            if at == count:
                yield from node.ends
            else:
                child = node.words.get(words[at])
                if child is not None:
                    todo.append((child, at + 1))
                if node.star is not None:
                    todo.append((node.star, at + 1))
            if node.hash is not None:
                positions = [(id(node.hash), after) for after in range(at, count + 1)]
                todo.extend((node.hash, position[1]) for position in positions if position not in seen)
                seen.update(positions)
