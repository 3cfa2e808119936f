module example.test/wasi

go 1.26
