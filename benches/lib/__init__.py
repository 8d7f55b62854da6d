"""Code shared by the cases: the harness, servers, loads and client drivers."""
