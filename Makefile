# A thin shell over make.py, which works without make: python make.py book
PYTHON ?= python3

.PHONY: help env weights book test steady clean lock
help env weights book test clean lock:
	@$(PYTHON) make.py $@

# make steady ARGS="--chapters 10 14"
steady:
	@$(PYTHON) make.py steady $(ARGS)
