"""The main job: TopDown on an optimised geographic spine."""
