module github.com/proa-project/proa/wasmplugins/guest

go 1.24
