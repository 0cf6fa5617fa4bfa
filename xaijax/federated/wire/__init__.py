"""Communication between parties: bytes, who may connect, and identifiers under a session's key.

Reading order:

    grpc_transport   gRPC with mutual TLS: a party as a server, and the connection to it
    tls              the files that mutual TLS needs, also for trials; reasons of refusal
    psi              private set intersection: which identifiers both parties have
    party            how any party is asked and answers; every failure is a typed refusal
    tokens           identifiers as tokens under a key that lives as long as a session
    messages         the messages of the protocol, read from wire.proto
"""
