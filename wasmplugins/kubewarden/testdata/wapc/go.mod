module example.test/wapc

go 1.26
