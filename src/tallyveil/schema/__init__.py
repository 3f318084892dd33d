"""The universe of a release: attributes, recodes, schemas, query groups and presets."""
