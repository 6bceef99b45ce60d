"""A CSV file of orders is given."""

from curriculum.evolution.artifacts import Table
from curriculum.evolution.fixtures import ORDER_COLUMNS, orders
from curriculum.evolution.pipeline import Source, Step


class OrdersCsv(Source):
    gives, skill = Table, "a given CSV file"
    works = False

    def step(self, rng, place, given):
        table = Table(place.data("orders.csv"), ORDER_COLUMNS, tuple(orders(rng, rng.randint(40, 70))))
        return Step(table, fixture={table.path: table.file()})


NODE = OrdersCsv()
