"""A small world: what happens in it is told as stories, asked about and talked about."""

from moa_core.train.bundle.world.chats import KINDS, chats, opened, words_for
from moa_core.train.bundle.world.story import tell

__all__ = ["KINDS", "chats", "opened", "tell", "words_for"]
