"""Tests of the sample-home generator."""
