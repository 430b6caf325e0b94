"""The keys of the configuration that a reload applies (`semq node reload`)."""

# section | its reloadable keys; an empty tuple: the whole section is reloadable
RELOADED: dict[str, tuple[str, ...]] = {
    "amqp": (
        "users", "virtual_hosts", "max_connections", "max_connections_per_address", "max_queues", "max_unacked_bytes",
        "memory_bytes", "min_free_disk_bytes",
    ),
    "nodes": (), "hub": ("answer_partners",), "direct": (), "folders": (), "webhooks": (), "alerts": (),
    "protocol": ("quota_rows_per_partner", "quota_piece_bytes_per_partner", "overdue_s"),
}  # fmt: skip


def is_reloaded(section: str, key: str) -> bool:
    """Return whether a reload applies a change of a key of a section."""
    return section in RELOADED and (not RELOADED[section] or key.partition(".")[0] in RELOADED[section])
