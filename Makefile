# Short names for the scripts; nothing here that they do not do.
.PHONY: test soak demo format wheel clean

test:
	scripts/test

soak:
	scripts/test --soak

demo:
	scripts/demo

# After the first `make test`.
format:
	.venv-test/bin/ruff check --fix
	.venv-test/bin/ruff format

wheel:
	.venv-test/bin/python -m build --outdir build/dist

clean:
	rm -rf build .venv-test .venv-test.lock .venv-demo .venv-demo.lock .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
