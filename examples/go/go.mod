module example.com/ludolf-minimal

go 1.19
