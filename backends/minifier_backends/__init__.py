"""Reference backends for `torch.compile`, and backends that fail on command.

Importing this package registers nothing. Three backends are announced as entry points in the group
`torch_dynamo_backends`, and torch loads them when their name is asked for:

    reference_aot       AOTAutograd with a forward and a backward compiler   (minifier_backends.aot)
    first_available     first_of("tensorrt", "inductor"), then eager         (minifier_backends.composable)
    faulty_installed    refuses one op                                       (minifier_backends.installed)

The others exist once their module has been imported, as a user's own backend does:

    table               prints the graph as a table, tag "debug"             (minifier_backends.table)
    speedy              TorchScript for inference, tag "experimental"        (minifier_backends.speedy)
    quiet_*             leave graphs to inductor or eager                   (minifier_backends.quiet)
    observing           records all that a backend can see, tag "debug"      (minifier_backends.observing)
    pieces              splits the graph, compiles each piece with inductor  (minifier_backends.pieces)
    faulty_*            one name per kind of failure, tag "debug"            (minifier_backends.faulty)

A module named by an entry point must not register the same name itself: torch registers what it loads,
and refuses a name that is already taken.
"""

__version__ = "0.1.0"
