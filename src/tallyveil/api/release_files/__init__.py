"""Release files that `tallyveil synth` writes beside a made-up population, one a schema preset."""
