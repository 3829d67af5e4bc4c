package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// arrange puts a command line into the only order that the library reads rightly: the app's options, the command, its options, arguments. Left
// alone, it takes an option behind the first argument for an argument, and refuses an option of the app behind the command.
func arrange(app *cli.App, line []string) []string {
	if len(line) == 0 || line[len(line)-1] == "--generate-bash-completion" {
		return line // a shell asks what could come next: the line is not complete
	}
	var common, path, own, arguments []string
	commands, flags := app.Commands, []cli.Flag(nil)
	rest := line[1:]
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		if word == "--" {
			arguments = append(arguments, rest...)
			break
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			if next := find(commands, word); next != nil && len(arguments) == 0 {
				path = append(path, word)
				commands, flags = next.Subcommands, next.Flags
			} else {
				arguments = append(arguments, word)
			}
			continue
		}
		name, _, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
		option := []string{word}
		flag, ofApp := lookUp(flags, name), false
		if flag == nil {
			flag = lookUp(app.Flags, name)
			ofApp = flag != nil
		}
		if flag == nil {
			flag = anywhere(app.Commands, name) // of a command that comes later on the line
		}
		if !valued && takesValue(flag) && len(rest) > 0 {
			option = append(option, rest[0])
			rest = rest[1:]
		}
		if ofApp {
			common = append(common, option...)
		} else {
			own = append(own, option...)
		}
	}
	arranged := append([]string{line[0]}, common...)
	arranged = append(append(arranged, path...), own...)
	for _, argument := range arguments {
		if strings.HasPrefix(argument, "-") {
			arranged = append(arranged, "--")
			break
		}
	}
	return append(arranged, arguments...)
}

func find(commands []*cli.Command, name string) *cli.Command {
	for _, command := range commands {
		if command.HasName(name) {
			return command
		}
	}
	return nil
}

func lookUp(flags []cli.Flag, name string) cli.Flag {
	for _, flag := range flags {
		for _, known := range flag.Names() {
			if known == name {
				return flag
			}
		}
	}
	return nil
}

func anywhere(commands []*cli.Command, name string) cli.Flag {
	for _, command := range commands {
		if flag := lookUp(command.Flags, name); flag != nil {
			return flag
		}
		if flag := anywhere(command.Subcommands, name); flag != nil {
			return flag
		}
	}
	return nil
}

func takesValue(flag cli.Flag) bool {
	documented, ok := flag.(cli.DocGenerationFlag)
	return ok && documented.TakesValue()
}

// checkArguments holds the arguments against the command's ArgsUsage: one word for each, in brackets if it may be left out.
func checkArguments(c *cli.Context, usage string) error {
	words := strings.Fields(usage)
	least := 0
	for _, word := range words {
		if !strings.HasPrefix(word, "[") {
			least++
		}
	}
	name := strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ")
	switch got := c.Args().Slice(); {
	case len(got) < least:
		return usagef("%s: %s is missing: %s %s", name, words[len(got)], c.Command.HelpName, usage)
	case len(got) > len(words):
		if len(words) == 0 {
			return usagef("%s takes no argument, and %q is one", name, got[0])
		}
		return usagef("%s: one argument too many, %q: %s %s", name, got[len(words)], c.Command.HelpName, usage)
	}
	return nil
}

// groupAlone is a command that only has commands below it, without one of them.
func groupAlone(c *cli.Context, command *cli.Command) error {
	if c.Args().Present() {
		return unknownCommand(command.Name+" ", command.Subcommands, c.Args().First())
	}
	var names []string
	for _, sub := range command.Subcommands {
		names = append(names, sub.Name)
	}
	return usagef("%s: say what to do: %s", command.Name, strings.Join(names, ", "))
}

func unknownCommand(before string, commands []*cli.Command, name string) error {
	if strings.HasPrefix(name, "-") {
		return usagef("there is no option %s", name)
	}
	var visible []*cli.Command
	for _, command := range commands {
		if !command.Hidden {
			visible = append(visible, command)
		}
	}
	text := fmt.Sprintf("there is no command %q", before+name)
	if guess := cli.SuggestCommand(visible, name); guess != "" {
		text += ". " + strings.TrimSpace(guess)
	}
	return &UsageError{text}
}
