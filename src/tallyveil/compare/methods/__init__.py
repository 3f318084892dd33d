"""Methods of disclosure control, one documented class each, with the parameters that an office sets."""
