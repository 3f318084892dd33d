"""The noise source against a sampler in plain decimal arithmetic, and against itself in every other order."""

import hashlib
import pickle
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallyveil.errors import ConfigError, GeographyError, SchemaError, TallyveilError
from tallyveil.kernels.noise import Listed
from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    NoiseSource,
    insecure_key,
)
from tallyveil.noise import source as source_module
from tallyveil.noise.source import Workspace
from tallyveil.noise.table import InversionTable

KEY = bytes(range(32))
GAUSSIAN = DiscreteGaussian(Fraction("68.49"))
LAWS: list[Law] = [
    DiscreteGaussian(Fraction(1, 10)),
    GAUSSIAN,
    DiscreteGaussian(Fraction(10**4)),
    DiscreteLaplace(Fraction("7.3")),
    DiscreteLaplace(Fraction(1, 2)),
]
BIG_GEOUNIT = (1 << 36) - 1


def plain_draws(law: Law, geolevel: int, query: int, geounit: int, answers: range) -> list[int]:
    """The documented construction, one draw at a time, sharing no code with the package."""
    encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    high = geolevel << 52 | query << 36 | geounit
    with localcontext() as context:
        context.prec = 60
        if isinstance(law, DiscreteGaussian):
            rate = -Decimal(law.variance.denominator) / (2 * law.variance.numerator)
            weights = {x: (rate * x * x).exp() for x in range(-1300, 1300)}
        else:
            rate = -Decimal(law.scale.denominator) / law.scale.numerator
            weights = {x: (rate * abs(x)).exp() for x in range(-1300, 1300)}
        total = sum(weights.values())
        boundaries = dict(zip(weights, accumulate(weights.values()), strict=True))
        draws = []
        for answer in answers:
            block = encryptor.update(struct.pack("<QQ", answer // 8, high))
            (lane,) = struct.unpack_from("<H", block, 2 * (answer % 8))
            refinement = encryptor.update(struct.pack("<QQ", answer << 16, 1 << 60 | high))
            first, second = struct.unpack("<QQ", refinement)
            digits = lane << 128 | first << 64 | second
            uniform = total * digits / (1 << 144)
            draws.append(next(x for x, boundary in boundaries.items() if uniform < boundary))
    return draws


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_draws_follow_the_documented_construction(law: Law) -> None:
    wanted = plain_draws(law, 3, 17, 123456789, range(60))
    drawn = NoiseSource(KEY).dense(law, 3, 17, [123456789], 60)
    assert drawn.tolist() == [wanted]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_refined_draws_follow_the_documented_construction(law: Law) -> None:
    noise = NoiseSource(KEY)
    table = InversionTable.build(law)
    encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    addresses = b"".join(struct.pack("<QQ", block, 0) for block in range(20_000))
    lanes = np.frombuffer(encryptor.update(addresses), dtype="<u2")
    (undecided,) = np.nonzero(table.direct[lanes] == table.open_mark)
    assert undecided.size > 3
    drawn = noise.dense(law, 0, 0, range(1), 160_000)
    for answer in undecided[:8].tolist():
        assert [drawn[0, answer]] == plain_draws(law, 0, 0, 0, range(answer, answer + 1))


def test_draws_are_golden() -> None:
    noise = NoiseSource(KEY)
    assert noise.dense(GAUSSIAN, 0, 0, range(1), 12).tolist() == [
        [1, 5, -5, 7, 14, -2, -7, 0, 5, 0, -12, -10]
    ]
    assert noise.dense(GAUSSIAN, 255, 65535, [BIG_GEOUNIT], 12).tolist() == [
        [-3, 1, 7, -5, 3, -8, 11, -19, 2, 8, 5, -3]
    ]
    far = [(1 << 48) - 1, (1 << 48) - 2, 1 << 20]
    assert noise.at(GAUSSIAN, 5, 7, [1, 2, 3], far).tolist() == [4, -11, 10]
    assert noise.dense(LAWS[3], 0, 0, range(1), 12).tolist() == [[1, 4, -4, 7, 17, -1, -7, 0, 4, 0, -15, -11]]


@pytest.mark.parametrize(
    ("law", "digest"),
    [
        (DiscreteGaussian(Fraction(1, 10)), "bab2320786a95a2f49990d6684efcb21"),
        (DiscreteGaussian(Fraction(5)), "9c8d3372bc8ad5c1f014995e138a9341"),
        (GAUSSIAN, "c613890fafd399affc46c3aa562dd26e"),
        (DiscreteGaussian(Fraction(10**4)), "5754b5f03c7bd7aef14b367608a45d1d"),
        (DiscreteLaplace(Fraction("7.3")), "2c79e6410282c6770ca356087ed5d300"),
        (DiscreteGaussian(Fraction(10**8)), "5b33b34d23add526852c80a8f3d37404"),
    ],
    ids=str,
)
def test_digest_of_many_draws_is_golden(law: Law, digest: str) -> None:
    drawn = NoiseSource(KEY).dense(law, 2, 9, range(100), 2016)
    assert hashlib.sha256(drawn.astype("<i8").tobytes()).hexdigest()[:32] == digest


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_dense_scattered_added_and_narrow_agree(law: Law) -> None:
    noise = NoiseSource(KEY)
    geounits = np.array([5, 0, BIG_GEOUNIT, 7, 5])
    drawn = noise.dense(law, 1, 2, geounits, 1001)
    assert drawn.shape == (5, 1001)
    assert drawn.dtype == np.int64
    np.testing.assert_array_equal(drawn[0], drawn[4])
    rows, answers = np.indices(drawn.shape).reshape(2, -1)
    np.testing.assert_array_equal(noise.at(law, 1, 2, geounits[rows], answers), drawn[rows, answers])
    shuffled = np.random.default_rng(1).permutation(rows.size)  # neighbours no longer share blocks
    out = np.empty(rows.size, np.int64)
    assert noise.at(law, 1, 2, geounits[rows[shuffled]], answers[shuffled], out) is out
    np.testing.assert_array_equal(out, drawn[rows, answers][shuffled])
    runs = Listed(np.arange(1001), np.array([0, 0, 1001]), np.array([3, 5, 8]), np.array([0, 0, 3 * 1001]))
    listed = np.empty(3 * 1001, np.int64)
    noise.listed(law, 1, 2, runs, listed)
    np.testing.assert_array_equal(listed.reshape(3, 1001), noise.dense(law, 1, 2, range(5, 8), 1001))
    counts = np.arange(drawn.size).reshape(drawn.shape)
    before = counts.copy()
    noise.add_dense(law, 1, 2, geounits, counts)
    np.testing.assert_array_equal(counts - before, drawn)
    out = np.empty(drawn.shape, dtype=np.int32)
    assert noise.dense(law, 1, 2, geounits, 1001, out) is out
    np.testing.assert_array_equal(out, drawn)
    np.testing.assert_array_equal(noise.dense(law, 1, 2, geounits, 13), drawn[:, :13])


@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("batch", [1, 3])
def test_draws_do_not_depend_on_chunking(monkeypatch: pytest.MonkeyPatch, chunk: int, batch: int) -> None:
    law = LAWS[2]
    rows, answers = np.arange(40).repeat(60), np.tile(np.arange(60), 40)
    wanted = NoiseSource(KEY).dense(law, 0, 1, range(40), 60)
    monkeypatch.setattr(source_module, "CHUNK_BLOCKS", chunk)
    monkeypatch.setattr(source_module, "REFINED_BLOCKS", batch)
    noise = NoiseSource(KEY)
    np.testing.assert_array_equal(noise.dense(law, 0, 1, range(40), 60), wanted)
    np.testing.assert_array_equal(noise.at(law, 0, 1, rows, answers), wanted.reshape(-1))


class Noting:
    """Stands in for draws: 10 steps, of which every chunk leaves 7 draws open. It writes nothing."""

    n_steps = 10

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self.batches: list[tuple[int, list[int]]] = []

    def write_addresses(self, work: Workspace, first: int, n_steps: int) -> int:
        return 0

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_steps: int) -> int:
        self.steps.append((first, n_steps))
        work.positions[:7] = np.arange(7)
        return 7

    def write_refinement(self, work: Workspace, first: int, places: np.ndarray) -> None:
        self.batches.append((first, places.tolist()))


def test_no_chunk_goes_beyond_the_last_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code does not look at the ends of arrays, so what goes beyond them might not be noticed."""
    monkeypatch.setattr(source_module, "CHUNK_BLOCKS", 4)
    monkeypatch.setattr(source_module, "REFINED_BLOCKS", 3)
    monkeypatch.setattr(source_module, "_refine", lambda *given: None)
    draws = Noting()
    NoiseSource(KEY)._draw(InversionTable.build(GAUSSIAN), draws)
    assert draws.steps == [(0, 4), (4, 4), (8, 2)]
    assert draws.batches == [(first, places) for first in (0, 4, 8) for places in ([0, 1, 2], [3, 4, 5], [6])]


def test_calls_at_once_share_no_workspace_and_later_ones_reuse_it() -> None:
    noise = NoiseSource(KEY)
    with noise._workspace() as one, noise._workspace() as other:
        assert one is not other
    with noise._workspace() as again:
        assert again in (one, other)


def test_draws_do_not_depend_on_order_or_calls() -> None:
    noise = NoiseSource(KEY)
    wanted = noise.dense(GAUSSIAN, 0, 1, range(1000), 77)
    order = np.random.default_rng(3).permutation(1000)
    noise.dense(LAWS[3], 9, 9, range(3), 5)
    np.testing.assert_array_equal(noise.dense(GAUSSIAN, 0, 1, order, 77), wanted[order])
    np.testing.assert_array_equal(noise.dense(GAUSSIAN, 0, 1, range(999, 99, -7), 77), wanted[999:99:-7])


def test_draws_do_not_depend_on_threads() -> None:
    wanted = NoiseSource(KEY).dense(GAUSSIAN, 0, 1, range(400), 2016)
    noise = NoiseSource(KEY)
    with ThreadPoolExecutor(8) as pool:
        parts = pool.map(lambda i: noise.dense(GAUSSIAN, 0, 1, range(i, i + 20), 2016), range(0, 400, 20))
    np.testing.assert_array_equal(np.concatenate(list(parts)), wanted)


def test_draws_do_not_depend_on_processes(tmp_path: Path) -> None:
    script = (
        "import sys, numpy; from fractions import Fraction\n"
        "from tallyveil.noise import DiscreteGaussian, NoiseSource\n"
        "first, path = int(sys.argv[1]), sys.argv[2]\n"
        "noise = NoiseSource(bytes(range(32)))\n"
        "law = DiscreteGaussian(Fraction('68.49'))\n"
        "numpy.save(path, noise.dense(law, 4, 1, range(first, first + 30), 2016))\n"
    )
    path = tmp_path / "second.npy"
    subprocess.run([sys.executable, "-c", script, "30", str(path)], check=True)
    first = NoiseSource(KEY).dense(GAUSSIAN, 4, 1, range(30), 2016)
    wanted = NoiseSource(KEY).dense(GAUSSIAN, 4, 1, range(60), 2016)
    np.testing.assert_array_equal(np.concatenate([first, np.load(path)]), wanted)


@pytest.mark.parametrize("law", [LAWS[1], LAWS[2], LAWS[3]], ids=str)
@pytest.mark.parametrize("word_bits", [0, 3])
def test_ball_arithmetic_gives_the_same_draws(
    monkeypatch: pytest.MonkeyPatch, law: Law, word_bits: int
) -> None:
    # Words cut short leave hundreds of draws to the third step. They read the same digits of the same
    # uniform numbers, so not one draw may change.
    wanted = NoiseSource(KEY).dense(law, 0, 1, range(200), 2016)
    table = InversionTable.build(law, direct_bits=10, word_bits=word_bits)
    resolved = []
    plain = InversionTable.resolve
    monkeypatch.setattr(
        InversionTable, "resolve", lambda self, cell, words: resolved.append(1) or plain(self, cell, words)
    )
    noise = NoiseSource(KEY)
    noise._tables[law] = table
    np.testing.assert_array_equal(noise.dense(law, 0, 1, range(200), 2016), wanted)
    counts = np.ones_like(wanted)
    noise.add_dense(law, 0, 1, range(200), counts)
    np.testing.assert_array_equal(counts - 1, wanted)
    rows, answers = np.indices(wanted.shape).reshape(2, -1)
    np.testing.assert_array_equal(noise.at(law, 0, 1, rows, answers), wanted.reshape(-1))
    assert len(resolved) > 100


def test_words_of_an_address_follow_each_other() -> None:
    noise = NoiseSource(KEY)
    with noise._workspace() as work:
        words = work.refinement.words_at(5 << 16, 1 << 60)
        drawn = [next(words) for _ in range(5)]
    encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    blocks = b"".join(encryptor.update(struct.pack("<QQ", 5 << 16 | pair, 1 << 60)) for pair in range(3))
    assert drawn == list(struct.unpack("<6Q", blocks))[:5]


def test_addresses_apart_give_noise_apart() -> None:
    noise = NoiseSource(KEY)
    wanted = noise.dense(GAUSSIAN, 1, 2, range(1), 200)
    for other in (
        noise.dense(GAUSSIAN, 2, 2, range(1), 200),
        noise.dense(GAUSSIAN, 1, 3, range(1), 200),
        noise.dense(GAUSSIAN, 1, 2, range(1, 2), 200),
        NoiseSource(insecure_key("another")).dense(GAUSSIAN, 1, 2, range(1), 200),
    ):
        assert np.mean(wanted == other) < 0.2


def test_empty_requests() -> None:
    noise = NoiseSource(KEY)
    assert noise.dense(GAUSSIAN, 0, 0, range(0), 5).shape == (0, 5)
    assert noise.dense(GAUSSIAN, 0, 0, range(3), 0).shape == (3, 0)
    assert noise.dense(GAUSSIAN, 0, 0, range(0), 1 << 48).shape == (0, 1 << 48)
    assert noise.at(GAUSSIAN, 0, 0, [], []).shape == (0,)
    noise.add_dense(GAUSSIAN, 0, 0, range(0), np.zeros((0, 5), dtype=np.int64))


def test_tables_are_kept_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "TABLES_KEPT", 2)
    noise = NoiseSource(KEY)
    for scale in (1, 2, 3, 3):
        noise.dense(DiscreteLaplace(Fraction(scale)), 0, 0, range(1), 1)
    assert [law.scale for law in noise._tables] == [2, 3]


def test_key_is_neither_shown_nor_pickled() -> None:
    key = b"CANARY!!" * 4
    noise = NoiseSource(key)
    assert repr(noise) == "NoiseSource(key=<redacted>)"
    assert "CANARY" not in str(vars(type(noise)))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(noise)
    with pytest.raises(ConfigError, match=r"^NoiseSource: key: got a bytes of 31 bytes") as caught:
        NoiseSource(key[:-1])
    assert "CANARY" not in str(caught.value)


def test_big_endian_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(ConfigError, match="big endian"):
        NoiseSource(KEY)


@pytest.mark.parametrize(
    ("geolevel", "query", "geounits", "error"),
    [
        (256, 0, [0], GeographyError),
        (0, 65536, [0], SchemaError),
        (0, 0, [1 << 36], GeographyError),
        (0, 0, [-1], GeographyError),
    ],
)
def test_addresses_out_of_range(
    geolevel: int, query: int, geounits: list[int], error: type[TallyveilError]
) -> None:
    noise = NoiseSource(KEY)
    counts = np.zeros((1, 2), dtype=np.int64)
    with pytest.raises(error):
        noise.dense(GAUSSIAN, geolevel, query, geounits, 2)
    with pytest.raises(error):
        noise.at(GAUSSIAN, geolevel, query, geounits, [0])
    with pytest.raises(error):
        noise.add_dense(GAUSSIAN, geolevel, query, geounits, counts)
    assert not counts.any()


@pytest.mark.parametrize(
    ("answers", "geounits", "error"),
    [
        ([1 << 48], [0, 1], SchemaError),
        ([-1], [0, 1], SchemaError),
        ([0], [1 << 36, (1 << 36) + 1], GeographyError),
    ],
)
def test_listed_addresses_out_of_range(
    answers: list[int], geounits: list[int], error: type[TallyveilError]
) -> None:
    one_run = np.array([0, 1])
    listed = Listed(np.array(answers), one_run, np.array(geounits), one_run)
    out = np.zeros(1, dtype=np.int64)
    with pytest.raises(error):
        NoiseSource(KEY).listed(GAUSSIAN, 0, 0, listed, out)
    assert not out.any()


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((2, 4), dtype=np.int64),
        np.zeros((3, 3), dtype=np.int64),
        np.zeros((3, 4), dtype=np.float64),
        np.zeros((3, 4), dtype=np.int16),
        np.zeros((4, 3), dtype=np.int64).T,
        np.zeros((3, 8), dtype=np.int64)[:, ::2],
        np.zeros(12, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        np.zeros((3, 4, 1), dtype=np.int64),
        np.broadcast_to(np.int64(0), (3, 4)),
    ],
)
def test_output_must_fit(out: np.ndarray) -> None:
    noise = NoiseSource(KEY)
    with pytest.raises(SchemaError, match="array to write"):
        noise.dense(GAUSSIAN, 0, 0, range(3), 4, out)
    if out.shape != (3, 3):  # its own width is what counts there
        with pytest.raises(SchemaError, match="array to write"):
            noise.add_dense(GAUSSIAN, 0, 0, range(3), out)


@pytest.mark.parametrize(
    "out",
    [
        np.zeros(3, dtype=np.float64),
        np.zeros(4, dtype=np.int64),
        np.zeros(6, dtype=np.int64)[::2],
        np.zeros((3, 1), dtype=np.int64),
    ],
)
def test_output_of_scattered_draws_must_fit(out: np.ndarray) -> None:
    with pytest.raises(SchemaError, match="array to write"):
        NoiseSource(KEY).at(GAUSSIAN, 0, 0, [0, 1, 2], [0, 1, 2], out)


def test_counts_are_never_in_a_message() -> None:
    counts = np.full((3, 4), 987654321, dtype=np.int32)
    with pytest.raises(SchemaError) as caught:
        NoiseSource(KEY).add_dense(GAUSSIAN, 0, 0, range(3), counts)
    assert "987654321" not in str(caught.value)
