"""Tin Can: how it is reached, and what serves it."""

from __future__ import annotations

from belljar.vendors.vendor import Vendor, Wire

from .models import MODELS

VENDOR = Vendor(
    name="tin_can",
    title="Tin Can",
    aliases=("string",),
    wire=Wire("tin_can", "tin_can.dialect:TinCanDialect"),
    keys=("TIN_CAN_API_KEY",),
    address="TIN_CAN_BASE_URL",
    base_url="https://api.tin-can.example/v1",
    hosts=("tin-can.example",),
    model="tin-2",
    model_rows=MODELS,
    sdk="http.client",
    client="tin_can.client:TinCanClient",
)
