"""Declares the routes of the REST API, one file per resource."""

from __future__ import annotations
