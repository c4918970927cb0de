"""The reference of metrics: what Prometheus reads at `/metrics`."""

from handbook.service import described
from handbook.tables import NOTE, code, table

_ENDINGS = {"counter": "_total", "histogram": ""}


def metrics() -> list[tuple[str, str, str]]:
    """Name, type and meaning of every metric."""
    from prometheus_client.parser import text_string_to_metric_families

    _, text = described()
    families = list(text_string_to_metric_families(text))
    return [
        (family.name + _ENDINGS.get(family.type, ""), family.type, family.documentation)
        for family in families
        if not family.name.endswith("_created")
    ]


def page() -> str:
    """All metrics in one table."""
    return "\n".join(
        [
            "# Metrics\n",
            NOTE,
            "`GET /metrics` of a service, in the format of Prometheus, for administrators and for programs on "
            "the same machine. A histogram has `_bucket`, `_sum` and `_count`. "
            "[Watching](../watching.md) says what the figures of agents mean, "
            "[the service](../service.md) how to read them and which rules come with it.\n",
            table(["metric", "type", "is"], ([code(name), kind, text] for name, kind, text in metrics())),
        ]
    )
