"""What every test gets."""

pytest_plugins = ["leaked_processes", "pytester", "tests.doubles.fixtures"]
