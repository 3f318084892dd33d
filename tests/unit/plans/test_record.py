"""A plan as plain data: it can be written as JSON, and its shares, costs and errors agree with each other."""

import json
import math
from fractions import Fraction

from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.record import plan_record
from tallyveil.plans.resources import predict, sizes_of_spine
from tallyveil.products.topdown.run.inputs import read_spine


def test_a_record_is_plain_data_and_adds_up(small_release):
    plan = load_plan(small_release)
    record = json.loads(json.dumps(plan_record(plan), allow_nan=False))
    assert "resources" not in record
    assert record["schema"] == {"name": "people", "cells": plan.schema.size}
    shares = [Fraction(item["share"]) for item in record["expected"]]
    assert sum(shares) == plan.spent
    assert len(record["expected"]) == 9  # three geolevels, three queries
    for item in record["expected"]:
        assert item["answers"] == plan.query(item["query"]).size
        assert math.isclose(item["standard_deviation"] ** 2, item["variance"])
        # a margin of 95 % is about two standard deviations, and a whole number
        assert item["margin"] == round(item["margin"])
        assert abs(item["margin"] - 1.96 * item["standard_deviation"]) <= 1


def test_resources_stand_in_the_record_where_they_are_predicted(small_release):
    plan = load_plan(small_release)
    found = predict(plan, sizes_of_spine(read_spine(plan.geography)))
    stated = plan_record(plan, found)["resources"]
    assert stated["geounits"] == {"Region": 2, "Town": 8, "Block": 48}
    assert stated["disk_bytes"] == found.disk
    assert stated["memory_bytes"] == found.memory
    assert stated["seconds"] >= max(stated["stages"].values())
