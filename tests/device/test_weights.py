"""A drafter's download for the browser: what is in it, and what has none."""

import gzip
from hashlib import sha256

import numpy as np
import onnx
import onnx.shape_inference
import onnx.utils
import pytest
import torch

from demo.device.vendor import FILES, packed
from demo.device.weights import pack
from moa_core.engine.web import web_files
from moa_core.errors import UserError
from tests.device.twins import packed_session
from tests.models import drafter_of, tiny_target, useful


@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_are_the_heads_own_weights_where_the_target_ties_them(tied):
    target = tiny_target(tie_word_embeddings=tied)
    drafter = useful("moa-n0", target)
    drafter.vocabulary = torch.tensor([3, 8, 40])
    files = web_files(drafter, target)
    size = target.config.hidden_size
    assert (len(files["head"]) < 2 * 3 * size + size * size * 4) or not tied
    model = onnx.shape_inference.infer_shapes(onnx.load_from_string(files["draft"]))
    (found,) = (node.output[0] for node in model.graph.node if node.op_type == "Where")
    model = onnx.utils.Extractor(model).extract_model(["places", "outside"], [found])
    lookup = packed_session({**files, "draft": model.SerializeToString()})
    outside = np.full((1, 3, size), 7, np.float32)
    (rows,) = lookup.run(None, {"places": np.array([2, -1, 0]), "outside": outside})
    true = target.embed.weight[[40, 3]]
    assert (torch.from_numpy(rows[0, [0, 2]]) - true).abs().max() < true.abs().max() / 60
    assert (rows[0, 1] == 7).all()


def test_drafters_share_what_they_have_in_common():
    target = tiny_target(tie_word_embeddings=True)
    one, other = (pack(target, useful(name, target))[0]["files"] for name in ("moa-n1", "eagle2"))
    same = {name for name in one if one[name] == other[name]}
    assert same == {"runtime", "head", "words", "vocabulary"}


@pytest.mark.parametrize(
    ("method", "sizes", "words"),
    [
        *((name, {}, "draft in a browser") for name in ("vanilla", "tandem", "eagle3")),
        ("moa-n1", {"head_dim": 12}, "run the layers"),
    ],
)
def test_what_no_browser_runs_is_refused(method, sizes, words):
    target = tiny_target(**sizes)
    with pytest.raises(UserError, match=f"cannot {words}"):
        pack(target, drafter_of(method, target))


def test_the_libraries_are_those_of_npm():
    for files in FILES.values():
        for name, known in files.items():
            assert sha256(gzip.decompress(packed(name))).hexdigest() == known
