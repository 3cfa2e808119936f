module github.com/proa-project/proa/examples/plugins/website

go 1.24

require github.com/proa-project/proa/wasmplugins/guest v0.0.0

replace github.com/proa-project/proa/wasmplugins/guest => ../../../wasmplugins/guest
