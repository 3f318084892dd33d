"""The pages of a release of the main job and of a spine."""
