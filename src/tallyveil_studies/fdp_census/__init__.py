"""Recomputes "The 2020 United States Decennial Census Is More Private Than You (Might) Think".

Source: Su, Su and Wang 2025, PNAS; arXiv 2410.09296.
"""
