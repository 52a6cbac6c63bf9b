"""A browser's session: it also gets the embeddings that it did not download."""

from collections.abc import Sequence

import torch

from moa_core.drafters.base import ServerOutputs
from moa_core.link.session import Session
from moa_core.model.target import Observation


class BrowserSession(Session):
    """Sends `rows` [k, E] as well: embeddings of new tokens outside the draft vocabulary, in order.

    They are those of the prompt, and those that the target chose itself.
    """

    def server_outputs(self, observation: Observation, new: Sequence[int]) -> ServerOutputs:
        ids, words = torch.tensor(new), self._drafter.vocabulary
        outside = ids[:0] if words is None else ids[~torch.isin(ids, words)]
        rows = self._target.embed(outside)
        return {**super().server_outputs(observation, new), "rows": rows}
