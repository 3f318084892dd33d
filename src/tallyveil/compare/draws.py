"""Random numbers of a comparison: a generator for each purpose, all from one text."""

from dataclasses import dataclass

import numpy as np

from tallyveil.noise.key import derive_key, insecure_key


@dataclass(frozen=True, slots=True)
class Draws:
    """Generators that follow from a text, so that a comparison can be repeated.

    Attributes:
        text: The key of the comparison.
    Privacy: none. Anybody who has the text can repeat the draws.
    """

    text: str

    def bytes_of(self, *purpose: str) -> bytes:
        """A key of 32 bytes for a purpose."""
        return derive_key(insecure_key(self.text), "compare", *(word.encode() for word in purpose))

    def generator(self, *purpose: str) -> np.random.Generator:
        """The generator of a purpose, such as a method and its step. Purposes are independent of each other."""
        # Philox takes keys of 128 bits: the first half of the digest.
        return np.random.Generator(
            np.random.Philox(key=int.from_bytes(self.bytes_of(*purpose)[:16], "little"))
        )

    def again(self, number: int) -> "Draws":
        """The same for another draw of everything."""
        return Draws(f"{self.text}, draw {number + 1}")
