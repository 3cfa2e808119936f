module example.test/stateful

go 1.24
