"""``python -m cual.serve.demo FOLDER``: the example of `cual.serve.operations.demo`, and nothing else."""

from cual.serve.operations.demo import main

if __name__ == "__main__":
    main()
